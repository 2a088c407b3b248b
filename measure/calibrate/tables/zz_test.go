package tables
import ("testing";"os";"time";"llmprof/hardware";"llmprof/measure/calibrate";"llmprof";"fmt")
func TestZZ(t *testing.T){
 _ = llmprof.Calibrations
 data,_:=os.ReadFile("../../../hardware.toml")
 tab,err:=hardware.Load(string(data)); if err!=nil{t.Fatal(err)}
 g,err:=tab.GPU(os.Getenv("ZGPU")); if err!=nil{t.Fatal(err)}
 im,err:=Import(os.Getenv("ZDIR"),os.Getenv("ZENG")); if err!=nil{t.Fatal(err)}
 fmt.Println(len(im.Rows),im.Devices,im.Versions,im.Notes)
 f,err:=calibrate.FitImport(&calibrate.Import{Rows:im.Rows,Tables:hardware.Tables{Package:"aiconfigurator-core",Version:"0.12.0",Licence:"Apache-2.0",Files:im.Files},Engine:os.Getenv("ZENG"),Kernels:"k",Device:"d",Name:"n",Version:"v",Made:time.Now(),Notes:im.Notes},&g)
 if err!=nil{t.Fatal(err)}
 fmt.Println(f.Text())
}
